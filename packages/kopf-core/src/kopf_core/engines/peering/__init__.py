"""Peering: operators that see each other, so that one of them works, and others wait.

From the pure to the thin: :mod:`records` (what is written), :mod:`roster` (who is alive),
:mod:`membership` (who works), :mod:`member` (the watch and the keep-alives of one peering object),
:mod:`engine` (all the peering objects of one operator).
"""

from kopf_core.engines.peering.engine import Brakes as Brakes
from kopf_core.engines.peering.engine import PeeringEngine as PeeringEngine
from kopf_core.engines.peering.identities import detect_operator as detect_operator
from kopf_core.engines.peering.identities import detect_person as detect_person
from kopf_core.engines.peering.places import GROUPS as GROUPS
from kopf_core.engines.peering.places import Place as Place
from kopf_core.engines.peering.places import select_resource as select_resource
from kopf_core.engines.peering.places import touch as touch
from kopf_core.engines.peering.records import Peer as Peer
from kopf_core.engines.peering.records import make_record as make_record
from kopf_core.engines.peering.records import parse_records as parse_records
from kopf_core.engines.peering.roster import Roster as Roster
