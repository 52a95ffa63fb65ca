"""The documents that `-o json` prints, the lab's API sends and a dashboard shows."""
