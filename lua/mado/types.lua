---@meta
-- The types that the host sends. The fields and their spelling are those of the host's listings.

error('this file holds types only and is never loaded')

---@class mado.Error
---@field code string stable, in snake_case
---@field message string one sentence that names the thing
---@field remedy string what to do about it

---@alias mado.Phase 'starting'|'idle'|'busy'|'asking'|'unknown'|'exited'
---@alias mado.Rung 'hook'|'record'|'status'|'osc'|'title'|'screen'|'foreground'|'manual'|'none'
---@alias mado.Trigger 'on-idle'|'on-keyword'|'always'|'on-turn'
---@alias mado.Transform 'prompt-wrap'|'full-output'|'raw'|'ai-routing'|'summary'
---@alias mado.OnError 'stop'|'prompt-wrap'
---@alias mado.Dispatch 'madoagent'|'legacy'|'shadow'
---@alias mado.RouteState 'active'|'paused'|'held'|'stopped'
---@alias mado.HopState
---| 'queued'
---| 'typing'
---| 'submitted'
---| 'accepted'
---| 'held'
---| 'answered'
---| 'unconfirmed'
---| 'failed'
---| 'stopped'
---@alias mado.Level 'info'|'warn'|'error'

---@class mado.AgentInfo
---@field id integer unique in the host
---@field name string unique in its project
---@field project string
---@field profile string
---@field pid integer 0 before it was started
---@field cwd string
---@field phase mado.Phase
---@field rung mado.Rung
---@field reason_code string
---@field reason_text string
---@field draft boolean
---@field since integer milliseconds since the epoch
---@field queue integer
---@field attached integer
---@field session string?
---@field exit integer?
---@field adopted 'nvim'|'tmux'|nil its terminal is not mado's own
---@field place string? where that is
---@field limits string[]? what it therefore cannot offer

---@class mado.RouteInfo
---@field id integer
---@field source string
---@field target string
---@field project string
---@field trigger mado.Trigger
---@field pattern string?
---@field transform mado.Transform
---@field template string?
---@field provider string?
---@field model string?
---@field on_error mado.OnError
---@field task string?
---@field dispatch mado.Dispatch
---@field state mado.RouteState
---@field round integer
---@field max_rounds integer
---@field cooldown_ms integer
---@field stop_keyword string?
---@field reason_code string
---@field reason_text string

---@class mado.HopTimes milliseconds since the epoch
---@field fired integer?
---@field extracted integer?
---@field transformed integer?
---@field typing integer?
---@field submitted integer?
---@field accepted integer?
---@field answered integer?

---@alias mado.StepKind 'evidence'|'model'|'look'|'write'|'enter'|'receipt'|'person'

---@class mado.HopStep
---@field at integer milliseconds since the epoch
---@field kind mado.StepKind
---@field text string

---@class mado.Shadow
---@field at integer milliseconds since the epoch
---@field rung mado.Rung
---@field turn string?
---@field answer string
---@field prompt string empty when nothing would have been typed

---@class mado.HopInfo
---@field id integer
---@field route integer? none for a send or a hand-off
---@field chain integer
---@field depth integer
---@field source string empty for a send from a person
---@field target string
---@field project string
---@field state mado.HopState
---@field reason_code string
---@field reason_text string
---@field rung mado.Rung
---@field how string
---@field round integer
---@field answer string?
---@field input string? what a model was given
---@field provider string?
---@field model string?
---@field usage mado.Usage?
---@field prompt string?
---@field turn string?
---@field accepted_as string?
---@field answered_by string?
---@field shadow mado.Shadow?
---@field notes string[]?
---@field steps mado.HopStep[]?
---@field steps_lost integer?
---@field times mado.HopTimes

---@class mado.Usage
---@field input integer tokens, cached ones included
---@field cached integer
---@field output integer

---@class mado.QueueItem
---@field hop integer
---@field source string empty for a send from a person
---@field target string
---@field project string
---@field waiting_for string
---@field age_ms integer

---@class mado.LoadReply
---@field missing table<string, { profile: string, cwd: string?, args: string[]? }>
---@field made mado.RouteInfo[]
---@field changed mado.RouteInfo[]
---@field removed string[]

---@class mado.AnswerReply
---@field agent string
---@field text string
---@field turn string?
---@field rung mado.Rung

---@class mado.HelloReply
---@field protocol integer
---@field version string
---@field pid integer
---@field attach_socket string
---@field agents mado.AgentInfo[]

---@class mado.Notice
---@field project string
---@field level mado.Level
---@field code string
---@field key string
---@field text string
---@field agent string?

---@class mado.RouteOptions
---@field trigger mado.Trigger?
---@field pattern string?
---@field transform mado.Transform?
---@field template string?
---@field provider string?
---@field on_error mado.OnError?
---@field task string?
---@field dispatch mado.Dispatch?
---@field max_rounds integer? 1 to 20
---@field cooldown_ms integer? 1000 to 30000
---@field stop_keyword string?
---@field idle_ms integer? 0 to 600000
---@field deliver 'lines'|'paste'?
---@field confirm boolean?
---@field route_detached boolean?
