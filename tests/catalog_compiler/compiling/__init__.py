"""Tests of the grammar, the artifact, the compiler and its reports."""
