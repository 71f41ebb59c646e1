"""What every `Embedder` keeps to. A test module holds it against one by subclassing `EmbedderConformance`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

TEXTS = [
    "Ana is allergic to peanuts.",
    "저는 김치를 좋아해요",
    "我在北京大学学习中文",
    "[SEP] [CLS] </s> {0} %s",
    "👩\u200d👩\u200d👧 e\u0301 \u202eרי",
    "lone \ud83d half, NUL \0",
    "word " * 3000,
]


class EmbedderConformance:
    """The subclass gives the fixtures `embedder` and `another` of the same kind."""

    def test_vectors_have_unit_length_and_the_dimensions_it_names(self, embedder):
        assert embedder.model
        for embed in (embedder.embed_documents, embedder.embed_queries):
            vectors = embed(TEXTS)
            assert vectors.dtype == np.float32
            assert vectors.shape == (len(TEXTS), embedder.dimensions)
            assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_a_text_has_the_same_vector_in_any_company_and_from_any_instance(self, embedder, another):
        together = embedder.embed_documents(TEXTS)
        assert np.array_equal(another.embed_documents(TEXTS[::-1])[::-1], together)
        for text, vector in zip(TEXTS, together, strict=True):
            assert np.array_equal(another.embed_documents([text])[0], vector)

    def test_threads_may_share_an_instance(self, embedder):
        expected = embedder.embed_documents(TEXTS[:3])
        with ThreadPoolExecutor(4) as pool:
            for found in [pool.submit(embedder.embed_documents, TEXTS[:3]) for _ in range(8)]:
                assert np.array_equal(found.result(), expected)

    def test_no_texts_have_no_vectors_and_blank_ones_have_zeros(self, embedder):
        assert embedder.embed_documents([]).shape == (0, embedder.dimensions)
        vectors = embedder.embed_documents(["", TEXTS[0], " \n\t"])
        assert vectors.any(axis=1).tolist() == [False, True, False]
        blank = embedder.embed_chunks(" ")
        assert blank.is_whole
        assert blank.vectors.shape == (1, embedder.dimensions)
        assert not blank.vectors.any()

    def test_a_text_that_fits_is_one_chunk_with_its_vector(self, embedder):
        chunks = embedder.embed_chunks(TEXTS[0])
        assert chunks.is_whole
        assert np.array_equal(chunks.vectors, embedder.embed_documents(TEXTS[:1]))

    def test_a_long_text_has_chunks_of_which_the_first_is_its_beginning(self, embedder):
        text = "The sea was calm. " * 600 + "Ana is allergic to peanuts. " * 40
        chunks = embedder.embed_chunks(text)
        assert chunks.is_whole
        assert len(chunks.vectors) > 1
        assert np.allclose(np.linalg.norm(chunks.vectors, axis=1), 1, atol=1e-5)
        assert np.array_equal(chunks.vectors[:1], embedder.embed_documents([text]))
        assert not np.array_equal(chunks.vectors[0], chunks.vectors[-1])

    def test_a_text_without_end_is_embedded_as_far_as_it_is_affordable_and_says_so(self, embedder):
        assert not embedder.embed_chunks("word " * 150_000).is_whole
