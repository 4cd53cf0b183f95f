package ledger

import _ "embed"

var (
	//go:embed sql/pin.sql
	sqlPin string
	//go:embed sql/owe.sql
	sqlOwe string
	//go:embed sql/claim.sql
	sqlClaim string
	//go:embed sql/claim_one.sql
	sqlClaimOne string
	//go:embed sql/target_of.sql
	sqlTargetOf string
	//go:embed sql/report.sql
	sqlReport string
	//go:embed sql/record.sql
	sqlRecord string
	//go:embed sql/release.sql
	sqlRelease string
	//go:embed sql/backlog.sql
	sqlBacklog string
	//go:embed sql/enroll.sql
	sqlEnroll string
	//go:embed sql/abandon.sql
	sqlAbandon string
	//go:embed sql/count_owed.sql
	sqlCountOwed string
	//go:embed sql/list_deliveries.sql
	sqlListDeliveries string
	//go:embed sql/locate_delivery.sql
	sqlLocateDelivery string
	//go:embed sql/hasten.sql
	sqlHasten string
	//go:embed sql/undrained.sql
	sqlUndrained string
	//go:embed sql/settled_since.sql
	sqlSettledSince string
	//go:embed sql/erase.sql
	sqlErase string
	//go:embed sql/list_attempts.sql
	sqlListAttempts string
)
