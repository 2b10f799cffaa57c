"""The scaffold: a project of an operator to begin with, and its updates.

* :mod:`.projects`: what is asked for, and the files that are made of that.
* :mod:`.merging`: the changes of people and of newer scaffolds together.
"""
