from ._bounds import support_bound as support_bound
from ._certificate import Certificate as Certificate, certify as certify
from ._covers import KINDS as KINDS, Cover as Cover, cover as cover, cover_size as cover_size
from ._differences import DifferenceDesign as DifferenceDesign, for_differences as for_differences
from ._near_optimal import near_g_optimal as near_g_optimal
from ._result import Design as Design
from ._rows import Selection as Selection
