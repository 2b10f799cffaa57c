"""The playground of the documentation: a cluster and an operator in two workers of a browser.

Everything of Kopf is as released. Here, it only meets the browser: the bytes of HTTP go through
a message channel, and what people are to see goes to the page as messages.
"""
