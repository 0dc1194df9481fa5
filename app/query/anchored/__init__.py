"""Modes `asr` and `subgraph`: relations around topics and anchors, scored by structure."""
