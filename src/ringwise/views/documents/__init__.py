"""The fields of the documents that `-o json` prints, the lab's API sends and a dashboard shows.

Every document names its schema in the field `schema`, as `ringwise.io/NAME/VERSION`. Fields may be added
under the same version; to remove or rename one, or to change its type, needs a new version and a line in the
changelog. The type checker compares what a command prints with these types, and `views/schemas` makes the
JSON schemas from them.

Documents are structs that serialize themselves: `Document`, and `Fields` for their parts. Objects that `get`
and `describe` show, and rows of the dashboard, are TypedDicts, as are their parts: `get`, `describe` and the
dashboard add fields of their own to the same row, which a dictionary does without naming all fields again.
"""
