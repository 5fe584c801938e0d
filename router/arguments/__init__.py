"""Arguments of the chosen tool: the prompt they are written from, and what is made of them.

Owns nothing itself; the modules say what they own. Never compiles a schema (`catalog_compiler`)
and never walks one (`decoder`).
"""
