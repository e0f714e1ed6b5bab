package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// TestDisasters loses all machines and disks, up to three times in a crawl: every agent goes on from its saved state.
// No page is missing, and what is fetched again was fetched after the state.
func TestDisasters(t *testing.T) {
	const sec, ms, refetch = time.Second, time.Millisecond, membership.LossRefetch
	once := []Fault{{Kind: Disaster, At: 0.5, For: 5 * sec}}
	thrice := []Fault{{Kind: Disaster, At: 0.3, For: 2 * sec}, {Kind: Disaster, At: 0.5, For: 10 * sec},
		{Kind: Disaster, At: 0.7, For: sec}}
	ruins := []Fault{{Kind: Ruin, At: 0.3, For: 2 * sec}, {Kind: Ruin, At: 0.5, For: 10 * sec},
		{Kind: Ruin, At: 0.7, For: sec}}
	// An agent is lost, and another one joins in its place. Then all are lost, and those up to a number go on.
	replaced := func(agent, by, up int) []Fault {
		return []Fault{{Kind: Lose, Agent: agent, At: 0.4}, {Kind: Join, Agent: by, At: 0.4, After: 3 * sec},
			{Kind: Disaster, Agent: up, At: 0.7, For: 2 * sec}}
	}
	two := append([]Fault{{Kind: Lose, Agent: 3, At: 0.3}, {Kind: Join, Agent: 6, At: 0.3, After: 3 * sec}},
		replaced(2, 5, 2)...)
	again := Fault{Kind: Disaster, Agent: 1, At: 0.7, After: 400 * sec, For: 2 * sec} // it has adopted states by then
	for name, p := range map[string]Plan{
		"alone":             {Agents: 1, Faults: thrice},
		"once":              {Agents: 3, Faults: once},
		"three times":       {Agents: 3, Faults: thrice},
		"ring":              {Agents: 3, Partition: "ring", Faults: thrice},
		"hash":              {Agents: 3, Partition: "hash", Faults: thrice},
		"hash, contents":    {Agents: 3, Partition: "hash", Boundary: "contents", Faults: thrice},
		"topic":             {Agents: 3, Partition: topic, Faults: thrice},
		"sites":             {Agents: 3, Partition: sites, Coordinators: 3, Faults: thrice},
		"coordinators, too": {Agents: 3, Partition: sites, Coordinators: 3, Faults: ruins},
		"two replicas":      {Agents: 3, Replicas: 2, Faults: thrice},
		"fewer and others": {Agents: 3, Spare: 1, Faults: []Fault{{Kind: Disaster, At: 0.4, For: 2 * sec},
			{Kind: Join, Agent: 4, At: 0.4, After: 100 * sec}, {Kind: Leave, Agent: 3, At: 0.5}}},
		"left before": {Agents: 3, Faults: []Fault{{Kind: Leave, Agent: 2, At: 0.2},
			{Kind: Disaster, At: 0.5, For: 2 * sec}}},
		"one of three":    {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 1, At: 0.5, For: 2 * sec}}},
		"two of three":    {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 2, At: 0.5, For: 2 * sec}}},
		"early, of three": {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 1, At: 0.15, For: 2 * sec}}},
		"one of three, hash": {Agents: 3, Partition: "hash", Boundary: "contents",
			Faults: []Fault{{Kind: Disaster, Agent: 1, At: 0.5, For: 2 * sec}}},
		"one of three, topic": {Agents: 3, Partition: topic,
			Faults: []Fault{{Kind: Disaster, Agent: 1, At: 0.5, For: 2 * sec}}},
		"two of three, sites": {Agents: 3, Partition: sites, Coordinators: 3,
			Faults: []Fault{{Kind: Disaster, Agent: 2, At: 0.5, For: 2 * sec}}},
		"two of three, twice": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Disaster, Agent: 2, At: 0.4, For: 2 * sec}, {Kind: Disaster, At: 0.4, After: 320 * sec, For: sec}}},
		"lost for good": {Agents: 3, Faults: []Fault{{Kind: Orphan, Agent: 2, At: 0.4}}},
		"lost for good, then all": {Agents: 3, Faults: []Fault{{Kind: Orphan, Agent: 2, At: 0.3},
			{Kind: Disaster, At: 0.6, For: 2 * sec}}},
		"adopter killed": {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 2, At: 0.4, For: 2 * sec},
			{Kind: Kill, Agent: 1, At: 0.4, After: 250 * sec, For: 3 * sec}}},
		"adopter killed, late": {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 2, At: 0.4, For: 2 * sec},
			{Kind: Kill, Agent: 1, At: 0.4, After: 304 * sec, For: 3 * sec}}},
		"two adopters": {Agents: 3, Faults: []Fault{{Kind: Disaster, Agent: 2, At: 0.4, For: 2 * sec},
			{Kind: Cut, Agent: 1, At: 0.4, After: 150 * sec, For: 200 * sec}}},
		"killed, too": {Agents: 3, Faults: []Fault{{Kind: Kill, Agent: 2, At: 0.2, For: 3 * sec},
			{Kind: Disaster, At: 0.5, For: 2 * sec}, {Kind: Kill, Agent: 1, At: 0.7, For: 3 * sec}}},
		"one goes on": {Agents: 3, Replicas: 2, OnLoss: refetch, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 20 * sec}}},
		"one goes on, keep": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 20 * sec}}},
		"one goes on, late": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.8, For: 60 * sec}}},
		"one goes on, at once": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 100 * ms}}},
		"one goes on, sites": {Agents: 3, Replicas: 2, Partition: sites, Coordinators: 3, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 20 * sec}}},
		"one goes on, hash": {Agents: 3, Replicas: 2, Partition: "hash", Boundary: "contents", Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 20 * sec}}},
		"one goes on, topic": {Agents: 3, Replicas: 2, Partition: topic, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.5, For: 20 * sec}}},
		"one goes on, twice": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 2, At: 0.4, For: 20 * sec}, {Kind: Restore, Agent: 2, At: 0.7, For: 20 * sec}}},
		"one goes on, twice soon": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 3, At: 0.4, For: 20 * sec},
			{Kind: Restore, Agent: 3, At: 0.4, After: 125 * sec, For: 20 * sec}}},
		"one goes on, then killed": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 2, At: 0.4, For: 10 * sec},
			{Kind: Kill, Agent: 2, At: 0.4, After: 106 * sec, For: 2 * sec}}},
		"one goes on, then all": {Agents: 3, Replicas: 2, Faults: []Fault{
			{Kind: Restore, Agent: 2, At: 0.4, For: 20 * sec}, {Kind: Disaster, At: 0.7, For: 2 * sec}}},
		"replaced, then all":       {Agents: 3, Spare: 1, Replicas: 2, OnLoss: refetch, Faults: replaced(2, 4, 2)},
		"replaced, then all, keep": {Agents: 3, Spare: 1, Replicas: 2, Faults: replaced(2, 4, 2)},
		"replaced, then all, hash": {Agents: 3, Spare: 1, Replicas: 2, Partition: "hash", Boundary: "contents",
			OnLoss: refetch, Faults: replaced(2, 4, 1)},
		"replaced, then all, topic": {Agents: 3, Spare: 1, Replicas: 2, Partition: topic, Boundary: "urls",
			Faults: replaced(2, 4, 1)},
		"replaced, then all, topic, refetch": {Agents: 3, Spare: 1, Replicas: 2, Partition: topic, OnLoss: refetch,
			Faults: replaced(2, 4, 1)},
		"replaced, then all, sites": {Agents: 3, Spare: 1, Replicas: 2, Partition: sites, Coordinators: 3,
			OnLoss: refetch, Faults: replaced(2, 4, 1)},
		"replaced, the oldest state": {Agents: 3, Spare: 1, Replicas: 2, OnLoss: refetch,
			Faults: replaced(3, 4, 1)},
		"replaced, the oldest state, keep": {Agents: 3, Spare: 1, Replicas: 2, Faults: replaced(3, 4, 1)},
		"replaced, then two": {Agents: 3, Spare: 1, Replicas: 2, OnLoss: refetch,
			Faults: replaced(1, 4, 3)},
		"two replaced, then all":       {Agents: 4, Spare: 2, Replicas: 2, OnLoss: refetch, Faults: two},
		"two replaced, then all, keep": {Agents: 4, Spare: 2, Replicas: 2, Faults: two},
		"replaced, then all, twice": {Agents: 3, Spare: 1, Replicas: 2, OnLoss: refetch,
			Faults: append(replaced(3, 4, 2), again)},
		"replaced, then all, twice, keep": {Agents: 3, Spare: 1, Replicas: 2, Faults: append(replaced(3, 4, 2), again)},
		"one after the other": {Agents: 3, Replicas: 2, OnLoss: refetch, Faults: []Fault{
			{Kind: Restore, Agent: 1, At: 0.3, For: 5 * sec}, {Kind: Restore, Agent: 2, At: 0.5, For: 5 * sec},
			{Kind: Restore, Agent: 3, At: 0.7, For: 5 * sec}}},
	} {
		runNamed(t, name, func(t *testing.T) {
			p.Seed, p.Hosts, p.Pages, p.Delay, p.Latency, p.Crosslinked = 7, 20, 10, 3*sec, 5*ms, 0.9
			if p.Replicas == 0 {
				p.Replicas = 1
			}
			synctest.Test(t, func(t *testing.T) {
				story, v := tellAll(t, p, nil)
				t.Log(v)
				missing := story.judge.unstored(story.store)
				for _, wrong := range missing[:min(len(missing), 10)] {
					t.Error(wrong)
				}
				if v.Bad() || len(missing) > 0 {
					t.Errorf("the story broke a promise: %d pages are not in the store\n%s\n%s", len(missing),
						strings.Join(v.Log, "\n"), strings.Join(v.AgentEvents, "\n"))
				}
			})
		})
	}
}
