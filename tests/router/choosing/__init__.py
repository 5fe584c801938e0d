"""Tests of how a tool is chosen: retrieval, prompt, scoring, pipeline, evaluation."""
