"""The scaffold: a project of an operator to begin with, and its updates.

* :mod:`.projects`: the answers of people, and the files that are made of them.
* :mod:`.merging`: the changes of people and of newer scaffolds together.
"""
