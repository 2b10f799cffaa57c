"""Desired state: ``@kopf.reconcile`` brings the objects that functions want into the cluster.

* :mod:`.desired_states`: the engine: when a pass is due for which object.
* :mod:`.object_plans`: the plans and facts of one object.
* :mod:`.passes`: one pass: Kopf calls the function, and applies the objects that it wants.
* :mod:`.driving`: the call itself: generators, coroutines, and functions, step by step.
* :mod:`.applying`: one wanted object: check whether it is there already, and if not, apply it.
* :mod:`.wishes`: tells descriptions of objects from nonsense. Pure.
* :mod:`.farewells`: deletion of children that are not wanted anymore, or must go before the owner.
* :mod:`.fights`: others change the applied objects back again and again.
* :mod:`.ownership`: which objects own which ones.
* :mod:`.badges`: the marks on applied objects: the operator, the reconciler, a digest.
* :mod:`.sources`: the owned and related objects, as handlers see them.
* :mod:`.relations`: which objects are related to which ones.
* :mod:`.status_patches`: the statuses that reconcilers write to their objects.
* :mod:`.progress`: the attempts and delays, as they are stored on the objects.
* :mod:`.pass_places`: how many objects have their passes at the same time.
* :mod:`.triggers`: why and when a pass is due. Pure.
"""
