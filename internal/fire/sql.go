package fire

import _ "embed"

var (
	//go:embed sql/spend.sql
	sqlSpend string
	//go:embed sql/write_events.sql
	sqlWriteEvents string
	//go:embed sql/read_spent.sql
	sqlReadSpent string
	//go:embed sql/find_event.sql
	sqlFindEvent string
	//go:embed sql/lock_event.sql
	sqlLockEvent string
	//go:embed sql/prunable.sql
	sqlPrunable string
	//go:embed sql/lock_prunable.sql
	sqlLockPrunable string
	//go:embed sql/still_prunable.sql
	sqlStillPrunable string
	//go:embed sql/delete_events.sql
	sqlDeleteEvents string
	//go:embed sql/delete_keys.sql
	sqlDeleteKeys string
	//go:embed sql/erase.sql
	sqlErase string
	//go:embed sql/list_events.sql
	sqlListEvents string
)
