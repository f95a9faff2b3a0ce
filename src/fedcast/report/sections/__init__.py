"""Sections of the page, one file each: content in, HTML out."""
