"""The dashboard's server: documents of a scheduler over HTTP, and a stream of what changes in them."""
