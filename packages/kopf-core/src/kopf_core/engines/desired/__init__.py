"""Desired state: ``@kopf.reconcile``, from what functions want to what is in the cluster.

* :mod:`.desired_states`: what is known of every object with reconcilers, and when a pass is due.
* :mod:`.object_plans`: that knowledge itself.
* :mod:`.passes`: one pass: the function is called, and what it wants is applied.
* :mod:`.driving`: the call itself: generators, coroutines, and functions, step by step.
* :mod:`.applying`: one wanted object: is it there already, and if not, make it so.
* :mod:`.wishes`: what is an object, and what is nonsense. Pure.
* :mod:`.farewells`: deletion of what is not wanted anymore, or must go before its owner.
* :mod:`.fights`: those who do not let the objects be as wanted.
* :mod:`.ownership`: which objects belong to which ones.
* :mod:`.badges`: what is written on the applied objects: by whom, and what for.
* :mod:`.sources`: what is owned and related, as handlers see it.
* :mod:`.relations`: which objects are related to which ones.
* :mod:`.status_patches`: what is said of the objects themselves.
* :mod:`.progress`: the attempts and the delays, as they are kept on the objects.
* :mod:`.pass_places`: how many objects are worked on at the same time.
* :mod:`.triggers`: why and when a pass is to be made. Pure.
"""
