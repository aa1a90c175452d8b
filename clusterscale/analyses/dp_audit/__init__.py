"""Tests of the guarantees of mechanisms, and the utility of their releases."""
