"""The request that a token was made by, which may be sent again, and secrets that are replaced.

Written as SQL, like the first one, and compared with `codehub.store.tables` by a test.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

# One token for one key: two answers to the same request never are two tokens.
REQUESTS = """
ALTER TABLE api_tokens ADD COLUMN request_hash text;
CREATE UNIQUE INDEX api_tokens_request ON api_tokens (user_id, request_hash)
    WHERE request_hash IS NOT NULL;
"""

# A secret that was replaced must leave every memory at once, like one that was revoked.
NOTIFY = """
DROP TRIGGER access_token ON api_tokens;
CREATE TRIGGER access_token AFTER UPDATE ON api_tokens FOR EACH ROW
    WHEN ((OLD.token_hash, OLD.revoked_at, OLD.expires_at, OLD.scopes)
          IS DISTINCT FROM (NEW.token_hash, NEW.revoked_at, NEW.expires_at, NEW.scopes))
    EXECUTE FUNCTION tell_of_access('token');
"""


def upgrade() -> None:
    for part in (REQUESTS, NOTIFY):
        op.execute(part)
