package node

import "testing"

// Agents with different product tokens for robots.txt have different settings.
func TestAgentsShareTheirRobotsName(t *testing.T) {
	for _, c := range []struct {
		userAgent, robotsAgent, want string
	}{
		{"", "", "orbweaver"},
		{"MyBot/1.0", "", "mybot"},
		{"MyBot/1.0", "Other", "other"},
	} {
		a := &Agent{cfg: Config{UserAgent: c.userAgent, RobotsAgent: c.robotsAgent, Cluster: &Cluster{}}}
		got, err := a.shared(nil)
		if err != nil || got["robots-agent"] != c.want {
			t.Errorf("%q, %q: %q, %v; want %q", c.userAgent, c.robotsAgent, got["robots-agent"], err, c.want)
		}
	}
	a := &Agent{cfg: Config{UserAgent: "Mozilla/5.0", Cluster: &Cluster{}}}
	if got, err := a.shared(nil); err == nil {
		t.Errorf("without a name: %v", got)
	}
}
