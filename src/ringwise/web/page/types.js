// The documents of the API as the page reads them; see docs/guides/dashboard.md and the OpenAPI document of the server.

/**
 * `ring_kind` is what its rings are called: ring, mesh or card.
 * @typedef {{name: string, resource: string, accelerator: string, chips: number, rings: number[][], ring_kind: string}} Board
 */

/** @typedef {"not-ready" | "unhealthy" | "invalid" | "draining" | "closed" | "drain-ahead" | "reserved"} NodeSign */

/**
 * `start` of a drain with a time or a reservation, in nanoseconds since 1970: when it begins or began.
 * @typedef {{state: string, message: string, start: number | null}} NodeState
 */

/**
 * The fields that every `nodes` document has, and two that point into other tables of the snapshot.
 * @typedef {object} NodeRow
 * @property {string} name
 * @property {number | null} board index into the boards of the snapshot
 * @property {string | null} switch
 * @property {number | null} superpod
 * @property {number | null} rack
 * @property {boolean} schedulable whether it takes new pods with chips now
 * @property {string} state the worst of its states, in the words of the command line
 * @property {NodeState[]} states worst first, never empty
 * @property {number[]} numbers chip numbers in order
 * @property {number[]} holders -1: none; else the id of a job
 * @property {string} [allocation_mode] soft, static or dynamic; absent for whole chips
 * @property {number[]} [used_percent] of a soft or dynamic node: how much of each chip is used
 * @property {number[][]} [jobs_on_chips] of a soft or dynamic node: for each chip the ids of all jobs that use it
 * @property {string} chip_states a letter for each chip: u used, f faulty, i isolated, r reserved, c unschedulable, . free
 * @property {string} health one letter for each chip
 */

/**
 * The fields that every `jobs` document has, and an id.
 * @typedef {object} JobRow
 * @property {number} id
 * @property {string} namespace
 * @property {string} name
 * @property {string} kind
 * @property {string} queue
 * @property {string} phase
 * @property {string} state scheduled, pending, rejected, suspended or finished
 * @property {number} pods
 * @property {number} running
 * @property {number} chips
 * @property {number} priority
 * @property {number} created in nanoseconds since 1970
 * @property {string} reason_code empty: it has none
 * @property {string} reason_message
 * @property {string} reason_source PodGroup or Pod where the reason is of its condition
 * @property {string[]} affected_by the faults that currently affect it
 * @property {string[]} moves what plans of moves do for it or with it
 * @property {ExpectedStart | null} expected_start
 * @property {string} user empty: not known
 * @property {number | null} expected_end in nanoseconds since 1970; null: not known, or not running
 */

/** When a waiting job starts; times in nanoseconds since 1970. @typedef {{kind: string, earliest: number | null, latest: number | null, estimated: boolean, after: string[], reason: string, message: string}} ExpectedStart */

/** Chips by resource; those of different ones are never added. @typedef {Record<string, number>} Amounts */

/**
 * @typedef {object} QueueRow
 * @property {string} name
 * @property {string} parent
 * @property {string} state
 * @property {number} weight
 * @property {Amounts} fair_share
 * @property {Amounts} capability a resource that is not there has no limit
 * @property {Amounts} limit of UsageLimits; a resource that is not there has no limit
 * @property {Amounts} used
 * @property {number} pending
 * @property {number} rejected
 * @property {number} running
 */

/**
 * The chips of one resource.
 * @typedef {object} ChipTotals
 * @property {number} chips
 * @property {number} used
 * @property {number} faulty also those in use
 * @property {number} isolated also those in use
 * @property {number} reserved
 * @property {number} unschedulable
 * @property {number} free
 * @property {number} until_drain free chips on nodes with a later drain or reservation, only for jobs that end before it
 * @property {number} fragmentation from 0 to 1
 */

/** @typedef {{resources: Record<string, ChipTotals>, pending: number, rejected: number, running: number, throttled?: Record<string, number>}} Totals */

/** @typedef {{kind: string, name: string, version: string, live: boolean, leader: string}} Source */

/**
 * @typedef {object} Snapshot
 * @property {string} epoch
 * @property {number} sequence
 * @property {string} time
 * @property {Source} source
 * @property {Board[]} boards
 * @property {NodeRow[]} nodes
 * @property {JobRow[]} jobs
 * @property {QueueRow[]} queues
 * @property {Totals} totals
 */

/**
 * @typedef {object} Change
 * @property {number} sequence
 * @property {string} time
 * @property {NodeRow[]} [nodes]
 * @property {string[]} [removed_nodes]
 * @property {JobRow[]} [jobs]
 * @property {number[]} [removed_jobs]
 * @property {QueueRow[]} [queues]
 * @property {Totals} [totals]
 */

/**
 * @typedef {object} PodFields
 * @property {string} name
 * @property {number | null} rank
 * @property {string} phase
 * @property {string} node
 * @property {number[]} chips
 * @property {string | null} switch
 * @property {number | null} superpod
 * @property {number | null} rack
 * @property {string} block
 */

/**
 * @typedef {object} JobDocument
 * @property {JobRow} job
 * @property {number} min_available
 * @property {string} class
 * @property {string} board
 * @property {Record<string, string>} labels
 * @property {Record<string, string>} annotations
 * @property {PodFields[]} pods
 * @property {PlanFields[]} plans
 */

/**
 * A plan of moves that a job is a part of.
 * @typedef {object} PlanFields
 * @property {string} state
 * @property {string} job
 * @property {string[]} moved
 * @property {{pod: string, from: string, to: string, chips: number[]}[]} pods
 * @property {number} deleted_pods
 * @property {string} message
 * @property {number} time
 */

/** What a pod has of a chip. @typedef {{pod: string, job: string, message: string, percent: number}} ShareFields */

/** @typedef {{name: string, number: number, health: string, codes: string[], job: string, pod: string, note: string, shares?: ShareFields[]}} ChipFields */

/**
 * @typedef {object} NodeDocument
 * @property {NodeRow} node
 * @property {string} address
 * @property {Record<string, string>} labels
 * @property {Record<string, string>} annotations
 * @property {ChipFields[]} chips
 * @property {{namespace: string, name: string, job: string, phase: string, chips: number[]}[]} pods
 * @property {{code: string, message: string}[]} reasons
 */

/**
 * @typedef {object} ProblemFields
 * @property {string} severity error or warning
 * @property {string} code
 * @property {string} object
 * @property {string} message
 * @property {string} fix
 * @property {number | null} since in nanoseconds since 1970; null: not known
 * @property {string[]} jobs
 * @property {number} more_jobs
 */

/** @typedef {{now: number, problems: ProblemFields[], remaining_item_count?: number}} ProblemsDocument */

/** @typedef {{code: string, message: string, details: Record<string, unknown>, fixes: string[]}} Reason */

/**
 * @typedef {object} WhyDocument
 * @property {string} state
 * @property {string} message
 * @property {string | null} board
 * @property {string | null} board_reason
 * @property {string | null} class
 * @property {Reason | null} reason
 * @property {Record<string, number> | null} rejected_nodes
 * @property {number | null} fitting_nodes
 * @property {{node: string, missing_chips: number, message: string, code: string}[]} closest_nodes
 * @property {{name: string, position: number | null, pending: number, jobs_ahead: string[]}} queue
 * @property {number} reserved_chips
 * @property {ExpectedStart | null} expected_start
 * @property {{kind: string, message: string, conflicting_jobs: number}[]} fixes
 * @property {string[]} plan
 * @property {string[]} [notes]
 */

/**
 * @typedef {object} HistoryEntry
 * @property {string} time
 * @property {string} kind
 * @property {string | null} code
 * @property {string} message
 * @property {number | null} duration_seconds
 * @property {{name: string, rank: number | null, from: string | null, to: string | null, chips: number[]}[]} pods
 */

/**
 * @typedef {object} HistoryDocument
 * @property {string} until
 * @property {number} faults
 * @property {number} moved_pods
 * @property {number} pending_seconds
 * @property {HistoryEntry[]} entries
 */

/**
 * @typedef {object} PlacedPod
 * @property {string} name
 * @property {number} rank
 * @property {string | null} node
 * @property {number[] | null} chips
 * @property {string | null} switch
 * @property {number | null} superpod
 * @property {number | null} logical_superpod
 */

/**
 * @typedef {object} PlacedJob
 * @property {string} namespace
 * @property {string} name
 * @property {string} state
 * @property {string | null} class
 * @property {Reason | null} reason
 * @property {PlacedPod[]} pods
 */

/** @typedef {{jobs: PlacedJob[]}} PlaceDocument */

/**
 * @typedef {object} Series
 * @property {number} interval_seconds
 * @property {number[]} times
 * @property {Record<string, {used: number[], free: number[], fragmentation: number[]}>} resources
 * @property {number[]} pending
 * @property {number[]} rejected
 * @property {number[]} decisions
 */

/**
 * @typedef {object} AccountAmounts
 * @property {number} allocated_chip_hours
 * @property {number} uncertain_chip_hours
 * @property {Record<string, number>} lost_chip_hours
 * @property {number} pending_hours
 * @property {number} uncertain_pending_hours
 * @property {number} starts
 * @property {number} failures
 */

/**
 * @typedef {AccountAmounts & {queue: string | null, namespace: string | null, user: string | null, verified: boolean | null,
 *   job: string | null, uid: string | null, board: string, allocated_by_day: number[]}} ReportRow
 */

/**
 * @typedef {object} Report
 * @property {"queue" | "namespace" | "user" | "job" | "board"} group_by
 * @property {string[]} days
 * @property {ReportRow[]} rows
 * @property {(AccountAmounts & {board: string})[]} totals one for each board; empty: jobs that had no node
 * @property {boolean} has_chip_fractions soft shares or vNPUs are included
 * @property {{since: number, until: number}[]} gaps
 * @property {number} merged_jobs
 * @property {string | null} discarded_before
 * @property {string[]} unreadable
 */

export {};
