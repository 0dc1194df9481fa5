"""Trains weights for mode `asr`. Never imported by the service."""
