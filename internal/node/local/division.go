package local

import (
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A Division tells how the hosts are divided among the agents. A nil one has a single agent.
// It implements operate.Viewer.
type Division struct {
	Partition string
	Circle    bool // each agent owns a part of a circle
	Placed    Placed
}

// Placed is the present division.
type Placed interface {
	// Owners is nil before the first view.
	Owners() *placement.View
}

// arcsMost bounds the arcs of a picture: the circle is looked at in so many places.
const arcsMost = 720

func (d *Division) Shares() *pb.SharesResponse {
	if d == nil {
		return &pb.SharesResponse{}
	}
	r := &pb.SharesResponse{Partition: d.Partition}
	view := d.Placed.Owners()
	if view == nil {
		return r
	}
	agents := view.Agents()
	for _, a := range agents {
		share := &pb.Share{Agent: a.Name, Capacity: a.Capacity}
		if d.Circle {
			for p := range view.Ranges(a.Name) {
				share.Share += float64(p.Last-p.First) / (1 << 63) / 2
			}
		}
		r.Agents = append(r.Agents, share)
	}
	if d.Circle {
		r.Arcs = arcs(view, agents)
	}
	return r
}

// arcs returns which agent owns which part of the circle, as far as arcsMost places show it.
func arcs(view placement.Placement, agents []placement.Owner) (list []*pb.Arc) {
	owner := make([]string, arcsMost)
	const step = ^uint64(0)/arcsMost + 1
	for _, a := range agents {
		for p := range view.Ranges(a.Name) {
			for i := int((p.First + step/2 - 1) / step); i < arcsMost; i++ {
				if at := uint64(i)*step + step/2; at > p.Last {
					break
				} else if at >= p.First {
					owner[i] = a.Name
				}
			}
		}
	}
	for i, name := range owner {
		if n := len(list); n > 0 && list[n-1].Agent == name {
			list[n-1].To = float64(i+1) / arcsMost
			continue
		}
		list = append(list, &pb.Arc{Agent: name, From: float64(i) / arcsMost, To: float64(i+1) / arcsMost})
	}
	return list
}
