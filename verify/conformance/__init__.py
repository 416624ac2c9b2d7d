"""The pytest suite that users point at their kernel.

pytest --pyargs verify.conformance --kernel mypackage.attention:flash --dtype bf16
"""
