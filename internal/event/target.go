package event

// TargetID is the number of one address: a target of a fan-out receiver, or the one
// implicit target of any other receiver. It is the unit that is never held up by
// another: claims, limits and pauses are per target.
type TargetID int32

// LaneID is the number of a lane.
type LaneID int32

// DefaultLane is the lane of receivers that name none.
const DefaultLane = "default"
