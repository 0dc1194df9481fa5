"""A model that replays: it answers extraction requests with what a large model once extracted.

    python -m tests.bench.replay --port 9920 --sets musique-train,graphrag-bench-medical

It speaks the ordinary OpenAI protocol, so that any server can be measured on realistic graphs
without a model. Passages without a recording are read by the built-in extractor, vectors are those
of the built-in encoder, keywords and summaries those of the built-in rules: two systems that stand
on it have the same extraction and the same vectors. What was never recorded (hypothetical passages,
answers) is refused, not made up.
"""
