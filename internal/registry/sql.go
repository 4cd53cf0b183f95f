package registry

import _ "embed"

var (
	//go:embed sql/next_revision.sql
	sqlNextRevision string
	//go:embed sql/keep_lane.sql
	sqlKeepLane string
	//go:embed sql/find_receiver.sql
	sqlFindReceiver string
	//go:embed sql/list_receivers.sql
	sqlListReceivers string
	//go:embed sql/put_receiver.sql
	sqlPutReceiver string
	//go:embed sql/put_target.sql
	sqlPutTarget string
	//go:embed sql/add_secret.sql
	sqlAddSecret string
	//go:embed sql/drop_secrets.sql
	sqlDropSecrets string
	//go:embed sql/live_secrets.sql
	sqlLiveSecrets string
	//go:embed sql/remove_receiver.sql
	sqlRemoveReceiver string
	//go:embed sql/pause_receiver.sql
	sqlPauseReceiver string
	//go:embed sql/rename_receiver.sql
	sqlRenameReceiver string
	//go:embed sql/put_type.sql
	sqlPutType string
	//go:embed sql/find_type.sql
	sqlFindType string
	//go:embed sql/list_types.sql
	sqlListTypes string
	//go:embed sql/remove_type.sql
	sqlRemoveType string
	//go:embed sql/read_types.sql
	sqlReadTypes string
	//go:embed sql/list_lanes.sql
	sqlListLanes string
	//go:embed sql/pause_lane.sql
	sqlPauseLane string
	//go:embed sql/erase.sql
	sqlErase string
	//go:embed sql/read_book.sql
	sqlReadBook string
)
