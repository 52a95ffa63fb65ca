"""Where answers about a cluster come from: files, a lab, or a cluster.

`protocol` says what can be asked. `files`, `lab` and `cluster` answer it with the same documents.
"""
