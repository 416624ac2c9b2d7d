"""History: the same kernels over several versions, from the certificates and timings of each.

folders, oldest first -> versions -> trends -> picture, tables, Markdown
"""
