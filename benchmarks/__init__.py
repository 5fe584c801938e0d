"""Measurements that are published: each names its floor and ends with one line of JSON."""
