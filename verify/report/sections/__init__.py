"""Sections of the report, one module each; the module's name is the section's id in the page.

A new section is a new file here that defines `SECTION`; nothing else has to be edited.
"""
