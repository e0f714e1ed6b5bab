package rpc

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// A role is what the owner of a certificate is in its cluster. It stands in the certificate's subject, as the
// organizational unit: the authority writes the whole subject, tools such as "openssl x509" show it, and it
// needs no registered number, as an extension would. A certificate without a unit is an agent's.
type role uint8

const (
	anyRole role = iota
	agentRole
	coordinatorRole
)

// coordinatorUnit is the organizational unit of a coordinator.
const coordinatorUnit = "coordinator"

// errRole reports a certificate of the cluster that has another role than the connection needs.
var errRole = errors.New("wrong role")

// String names the role with its article.
func (r role) String() string {
	if r == coordinatorRole {
		return "a coordinator"
	}
	return "an agent"
}

// other returns the other role of the two.
func (r role) other() role {
	if r == coordinatorRole {
		return agentRole
	}
	return coordinatorRole
}

// units returns the organizational units of a certificate with the role.
func (r role) units() []string {
	if r == coordinatorRole {
		return []string{coordinatorUnit}
	}
	return nil
}

// roleOf returns the role of a certificate. A role of a later version is an error.
func roleOf(c *x509.Certificate) (role, error) {
	switch units := c.Subject.OrganizationalUnit; {
	case len(units) == 0:
		return agentRole, nil
	case slices.Equal(units, coordinatorRole.units()):
		return coordinatorRole, nil
	default:
		return anyRole, fmt.Errorf("%w: the certificate is of an unknown role, %.64q", errRole, units)
	}
}

// checkRole returns an error unless a certificate has the role want.
func checkRole(c *x509.Certificate, want role) error {
	is, err := roleOf(c)
	if err == nil && want != anyRole && is != want {
		err = fmt.Errorf("%w: it is %s, not %s", errRole, is, want)
	}
	return err
}

// stream returns the protocol of streams between two processes with the role, beside that of calls.
func (r role) stream() (proto string) {
	if r == coordinatorRole {
		return protoRaft
	}
	return protoGossip
}

// mark returns the first octet of these streams without TLS.
func (r role) mark() byte {
	if r == coordinatorRole {
		return raftMark
	}
	return gossipMark
}

// callerRole returns the role that a caller must have for a protocol.
func callerRole(proto string) role {
	for _, r := range []role{agentRole, coordinatorRole} {
		if proto == r.stream() {
			return r
		}
	}
	return anyRole // each call has its own rule
}
