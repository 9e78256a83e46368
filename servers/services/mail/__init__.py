"""Mail: threads, a mailbox per person, labels, drafts, search, attachments.

* ``records``: the four record types, and the names of labels.
* ``upkeep``: what is checked and derived when an image is built.
* ``addresses``: who is meant by a recipient, and how an address is shown.
* ``query`` and ``search``: the search language, and its translation into SQL.
* ``reading``, ``labels``, ``sending``, ``drafts``: the tools.

A message exists once; every internal person who sent or got it has a copy with labels of their own. What a
person has no copy of does not exist for that person. People outside the organisation have no mailbox, but may
answer what they were sent.

Not promised: HTML bodies, spam, bounces, mailing lists, filters. Reading a message changes nothing; UNREAD is
a label like any other, taken away with ``mail_modify_labels``.
"""

from __future__ import annotations

from servers.services.mail.drafts import DRAFT_TOOLS
from servers.services.mail.labels import LABEL_TOOLS
from servers.services.mail.reading import READING_TOOLS
from servers.services.mail.records import Attachment, Copy, Draft, Message
from servers.services.mail.search import SEARCH_TOOLS
from servers.services.mail.sending import SENDING_TOOLS
from servers.services.mail.upkeep import check, prepare
from servers.tools import Service

__all__ = ["MAIL"]

MAIL = Service(
    name="mail",
    title="Mail",
    summary="Threads, labels, drafts, search, attachments; sent mail arrives in coworkers' mailboxes.",
    records=(Message, Attachment, Copy, Draft),
    tools=(*SEARCH_TOOLS, *READING_TOOLS, *LABEL_TOOLS, *DRAFT_TOOLS, *SENDING_TOOLS),
    check=check,
    prepare=prepare,
)
