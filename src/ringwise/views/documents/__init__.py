"""The fields of the documents that `-o json` prints, the lab's API sends and a dashboard shows.

Every document names its schema in the field `schema`, as `ringwise.io/NAME/VERSION`. Fields may be added
under the same version; to remove or rename one, or to change its type, needs a new version and a line in the
changelog. The type checker compares what a command prints with these types, and `views/schemas` makes the
JSON schemas from them.
"""
