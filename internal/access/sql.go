package access

import _ "embed"

var (
	//go:embed sql/add_key.sql
	sqlAddKey string
	//go:embed sql/list_keys.sql
	sqlListKeys string
	//go:embed sql/lock_key.sql
	sqlLockKey string
	//go:embed sql/revoke_key.sql
	sqlRevokeKey string
	//go:embed sql/live_keys.sql
	sqlLiveKeys string
	//go:embed sql/any_key.sql
	sqlAnyKey string
	//go:embed sql/note_use.sql
	sqlNoteUse string
	//go:embed sql/add_audit.sql
	sqlAddAudit string
	//go:embed sql/end_audit.sql
	sqlEndAudit string
	//go:embed sql/list_audit.sql
	sqlListAudit string
)
