// Package lines serves requests that come as JSON lines on standard input, one answer line each.
//
// Requests run side by side, because a member of a group may wait for another one's request.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Record is one record on its way in or out. Bytes travel as base64; null is not empty.
type Record struct {
	Key       *[]byte  `json:"key"`
	Value     *[]byte  `json:"value"`
	Headers   []Header `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
	Offset    int64    `json:"offset"`
}

type Header struct {
	Name  string  `json:"name"`
	Value *[]byte `json:"value"`
}

// Committed is an offset of a group with its metadata.
type Committed struct {
	Offset   int64  `json:"offset"`
	Metadata string `json:"metadata"`
}

// Request has the fields of all operations; peers/driver.py says which one takes which.
type Request struct {
	ID         int                  `json:"id"`
	Op         string               `json:"op"`
	Bootstrap  string               `json:"bootstrap"`
	Topic      string               `json:"topic"`
	Partition  int32                `json:"partition"`
	Partitions int32                `json:"partitions"`
	Offset     int64                `json:"offset"`
	Time       int64                `json:"time"`
	Count      int                  `json:"count"`
	Codec      string               `json:"codec"`
	Settings   map[string]any       `json:"settings"`
	Records    []Record             `json:"records"`
	Configs    map[string]string    `json:"configs"`
	Group      string               `json:"group"`
	Kind       string               `json:"kind"`
	Instance   string               `json:"instance"`
	AutoCommit bool                 `json:"auto_commit"`
	Member     int                  `json:"member"`
	Offsets    map[string]Committed `json:"offsets"`
	Client     string               `json:"client"`
	Rate       float64              `json:"rate"`
	Broker     int32                `json:"broker"`
}

// Bootstraps is the list of addresses to begin with.
func (r *Request) Bootstraps() []string { return strings.Split(r.Bootstrap, ",") }

// Acks is the producer setting of that name: -1 where it was not given.
func (r *Request) Acks() int {
	switch value := r.Settings["acks"].(type) {
	case float64:
		return int(value)
	default:
		return -1
	}
}

// Idempotent is the producer setting of that name; it is on where it was not given.
func (r *Request) Idempotent() bool {
	value, given := r.Settings["enable.idempotence"].(bool)
	return !given || value
}

// Place names a partition in requests and answers.
func Place(topic string, partition int32) string { return fmt.Sprintf("%s:%d", topic, partition) }

// ParsePlace is the reverse of Place.
func ParsePlace(place string) (string, int32) {
	cut := strings.LastIndexByte(place, ':')
	partition, err := strconv.ParseInt(place[cut+1:], 10, 32)
	if err != nil {
		panic(err)
	}
	return place[:cut], int32(partition)
}

// Bytes gives null for a nil pointer.
func Bytes(given *[]byte) []byte {
	switch {
	case given == nil:
		return nil
	case *given == nil:
		return []byte{}
	default:
		return *given
	}
}

// Pointer gives a nil pointer for null.
func Pointer(given []byte) *[]byte {
	if given == nil {
		return nil
	}
	return &given
}

// Member is what a test sees of one member of a group.
type Member struct {
	sync.Mutex
	assigned   map[string]bool
	received   [][3]any
	rebalances int
	failure    string
}

func (m *Member) Assign(places []string) {
	m.Lock()
	m.rebalances++
	m.Unlock()
	for _, place := range places {
		m.Own(place)
	}
}

// Own adds one partition to those that the last rebalance brought.
func (m *Member) Own(place string) {
	m.Lock()
	defer m.Unlock()
	if m.assigned == nil {
		m.assigned = map[string]bool{}
	}
	m.assigned[place] = true
}

func (m *Member) Revoke(places []string) {
	m.Lock()
	defer m.Unlock()
	for _, place := range places {
		delete(m.assigned, place)
	}
}

func (m *Member) Receive(place string, offset int64, value []byte) {
	m.Lock()
	defer m.Unlock()
	m.received = append(m.received, [3]any{place, offset, string(value)})
}

func (m *Member) Fail(err error) {
	m.Lock()
	defer m.Unlock()
	m.failure = err.Error()
}

// State is the answer to the operation of that name.
func (m *Member) State() any {
	m.Lock()
	defer m.Unlock()
	assigned := []string{}
	for place := range m.assigned {
		assigned = append(assigned, place)
	}
	received := append([][3]any{}, m.received...)
	return map[string]any{
		"assigned": assigned, "received": received, "rebalances": m.rebalances, "error": m.failure,
	}
}

// Positions are the offsets after the last record received of each partition.
func (m *Member) Positions() map[string]Committed {
	m.Lock()
	defer m.Unlock()
	positions := map[string]Committed{}
	for _, each := range m.received {
		positions[each[0].(string)] = Committed{Offset: each[1].(int64) + 1}
	}
	return positions
}

// Members numbers the members of one program.
type Members[T any] struct {
	sync.Mutex
	all []T
}

func (m *Members[T]) Add(member T) int {
	m.Lock()
	defer m.Unlock()
	m.all = append(m.all, member)
	return len(m.all) - 1
}

func (m *Members[T]) Get(number int) T {
	m.Lock()
	defer m.Unlock()
	return m.all[number]
}

// Operation answers one kind of request.
type Operation func(*Request) (any, error)

// Serve answers requests until standard input ends.
func Serve(operations map[string]Operation) {
	var writing sync.Mutex
	answer := json.NewEncoder(os.Stdout)
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		go func() {
			request := &Request{}
			answered := map[string]any{}
			if err := json.Unmarshal(line, request); err != nil {
				answered["error"] = err.Error()
			} else if value, err := perform(operations, request); err != nil {
				answered["error"] = err.Error()
			} else {
				answered["value"] = value
			}
			answered["id"] = request.ID
			writing.Lock()
			defer writing.Unlock()
			if err := answer.Encode(answered); err != nil {
				panic(err)
			}
		}()
	}
}

func perform(operations map[string]Operation, request *Request) (value any, err error) {
	operation, known := operations[request.Op]
	if !known {
		return nil, fmt.Errorf("not offered: %s", request.Op)
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	return operation(request)
}
