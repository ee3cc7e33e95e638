// Package sim explores the production reconcile code on a simulated API server. Whatever may happen in more than one way
// in a cluster is a choice here, made in one place: which view advances and how far, which manager reconciles, what
// becomes of each of its requests, what users, nodes, the garbage collector and time do. After every change of the store
// and at every request an oracle checks the promises of the operator.
//
//	question                                                 file
//	what does the API server answer?                         server.go, errors.go
//	what does a manager see, and how late?                   view.go
//	how does a manager run, and what becomes of requests?    manager.go, client.go
//	how are a reconciler's memories copied and compared?     memory.go
//	what may happen next?                                    step.go, actors.go
//	who chooses, and how is a run replayed?                  chooser.go, replay.go
//	which promises are checked, and how?                     oracle.go
//	what is left when the faults are over?                   settle.go
//	when are two states the same?                            encode.go
//	how are all states visited?                              explore.go
//
// The tests are random walks, exhaustive explorations of small scenarios, replays of single runs, and a comparison of
// the simulated API server with a real one.
package sim
