"""Tests of fits of many tasks, each in a process whose memory is capped."""
