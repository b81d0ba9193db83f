/* The mutex of docs/protocol.md in Promela: acquire, queue, hand-off, confirm, lost replies, late requests, expiry.
 *
 * Two processes want one lock. Each takes it up to ROUNDS times, each time with a token of its own, and each request has a nonce
 * of its own, one of two that is not in use. What is on its way is a set of flags, so anything may overtake anything. Time is a
 * clock that moves all countdowns by one tick.
 *
 * Faults: a waiting process gives up; a holder stops for as long as it likes; releases, messages and extensions arrive at any
 * time; requests and their replies arrive within NOT_AFTER ticks, except that FAULTS messages are lost or, with -DLATE, are
 * requests that arrive at any time; CRASHES processes die.
 *
 * Checked, by assertions: no two valid holders; fences rise; a token that was released for good is never granted again. By ltl:
 * nobody waits for ever. Each of -DNO_COMPARE -DNO_CONFIRM -DNO_RESCUE -DNO_NOT_AFTER -DONE_NONCE leaves a rule out and must fail.
 *
 * Not in the model: renewal, several keys, hand-off within a process, polling callers, clocks of different rates. */

#define LIFETIME 3      /* ticks */
#define PROVISIONAL 2   /* time to live of a grant by hand-off until it is confirmed */
#define NOT_AFTER 1     /* an older request changes nothing */
#define SILENCE 2       /* the time after which a queue entry expires that was not written anew */
#ifndef ROUNDS
#define ROUNDS 2        /* of the first process */
#endif
#ifndef ROUNDS_OF_SECOND
#define ROUNDS_OF_SECOND ROUNDS
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FENCES
#define FENCES 0        /* the number of grants after which the server stops; 0: fences are left out, and grants have no bound */
#endif

#define FREE 4          /* no token: those are 0 to 3 */
#define NOBODY 8        /* no slot: those are 0 to 7, two for each token */
#define tokenOf(s) ((s) >> 1)
#define ownerOf(token) ((token) >> 1)
#define roundsOf(p) (p -> ROUNDS_OF_SECOND : ROUNDS)

/* The server: the key; its queue, in order, each entry with the nonce of its last request. */
byte key = FREE;
byte ttl, keyFence, fence;
byte queue[4] = FREE;
byte nonce[4] = NOBODY;
byte silence[4];        /* ticks until the entry expires */

/* Requests and replies on their way. A slot is a request, and then its reply; its number is its nonce. */
mtype = { none, sent, late, busy, granted, answered };
mtype slot[8] = none;
byte age[8];            /* ticks since it was sent */
byte replyFence[8];
bool message[8];        /* "you have the lock", to the entry with this nonce */
byte messageFence[8];
byte releasing[4];      /* 1 a release; 2 the second release of an abandoned token, just after notAfter */
mtype extension[4] = none;      /* sent; then its reply: granted or busy */
byte extensionAge[4];
byte extensionLeft[4];  /* ticks until it is no longer valid for the holder, and the extension is too late */

/* The processes. */
mtype = { idle, waiting, holding, dead };
mtype state[2] = idle;
byte current[2];        /* its token */
byte request[2];        /* the slot of its last request */
byte validity[2];         /* ticks for which its lock is valid */
bool provisional[2];    /* not confirmed yet */
bool patient[2];        /* neither gives up nor dies, this time */
byte rounds[2];         /* how many tokens it has taken */
byte again[4];          /* ticks until the second release of an abandoned token */

/* The observer. */
bool gone[4];           /* that release was executed */
byte seen;              /* the largest fence of a holder so far */
byte faults = FAULTS;
byte crashes = CRASHES;

hidden byte i, token, first, me;        /* of one step only */

#define isOpen(s) (slot[s] == sent || slot[s] == late)
#define onItsWay(s) (slot[s] == sent || slot[s] == busy || slot[s] == granted)
#define isHeld(t) (current[ownerOf(t)] == t && state[ownerOf(t)] == holding)
#define isWanted(t) (current[ownerOf(t)] == t && state[ownerOf(t)] == waiting)

/* ---- The server: each script runs as a whole. */

#if FENCES
#define mayMint (fence < FENCES)
#else
#define mayMint true
#endif

inline mint() {
#if FENCES
  fence++;
  keyFence = fence
#else
  skip
#endif
}

inline setKey(t, ticks) {
  assert(!gone[t]);                     /* nobody would release it */
  key = t;
  ttl = ticks
}

inline leave(t) {                       /* the queue */
  i = 0;
  do
  :: i < 4 && queue[i] != t -> i++
  :: i < 4 && queue[i] == t ->
     do
     :: i < 3 -> queue[i] = queue[i + 1]; i++
     :: else -> break
     od;
     queue[3] = FREE;
     i = 4
  :: i == 4 -> break
  od;
  nonce[t] = NOBODY;
  silence[t] = 0
}

inline enqueue(t, s) {                  /* in its old place, with another nonce */
  i = 0;
  do
  :: queue[i] == t || queue[i] == FREE -> queue[i] = t; break
  :: else -> i++
  od;
  nonce[t] = s;
  silence[t] = SILENCE
}

inline handOff() {                      /* a free key to the first entry, for as long as it takes to confirm */
  if
  :: key == FREE && queue[0] != FREE ->
     first = queue[0];
     mint();
     setKey(first, PROVISIONAL);
     message[nonce[first]] = true;
     messageFence[nonce[first]] = keyFence;
     leave(first)
  :: else
  fi
}

inline acquire(s) {
  me = tokenOf(s);
  if
  :: key == me -> ttl = LIFETIME; slot[s] = granted                     /* ours already: the same fence */
  :: key == FREE && (queue[0] == FREE || queue[0] == me) ->
     mint();
     setKey(me, LIFETIME);
     leave(me);
     slot[s] = granted
  :: else ->
     enqueue(me, s);
     handOff();
     slot[s] = busy
  fi;
  replyFence[s] = (slot[s] == granted -> keyFence : 0);
  if
  :: isWanted(me) && request[ownerOf(me)] == s -> skip
  :: else -> forget(s)                                                  /* nobody reads this reply */
  fi
}

inline release(t) {
  leave(t);
  if
#ifdef NO_COMPARE
  :: true -> key = FREE; ttl = 0
#else
  :: key == t -> key = FREE; ttl = 0
#endif
  :: else
  fi;
  gone[t] = gone[t] || releasing[t] == 2;
  releasing[t] = 0;
  handOff()
}

inline extend(t) {
  if
  :: key == t && extensionLeft[t] > 0 -> ttl = LIFETIME; extension[t] = granted
  :: else -> extension[t] = busy
  fi;
  extensionLeft[t] = 0;
  if
  :: isHeld(t) -> skip
  :: else -> forgetExtension(t)
  fi
}

/* ---- A process. */

inline forget(s) { slot[s] = none; age[s] = 0; replyFence[s] = 0 }
inline forgetExtension(t) { extension[t] = none; extensionAge[t] = 0; extensionLeft[t] = 0 }

inline start(p, isPatient) {
  current[p] = 2 * p + rounds[p];
  rounds[p]++;
  state[p] = waiting;
  patient[p] = isPatient;
  request[p] = 2 * current[p];
  slot[request[p]] = sent
}

inline ask(p, n) {
  forget(request[p]);
  request[p] = 2 * current[p] + n;
  slot[request[p]] = sent
}

#define unused(p, n) (slot[2 * current[p] + n] == none && !message[2 * current[p] + n])
#define unanswered(p) (slot[request[p]] == none || (slot[request[p]] == late && age[request[p]] > NOT_AFTER))
#ifdef NO_RESCUE
#define overdue(p) false
#else
#define overdue(p) (slot[request[p]] == answered && age[request[p]] >= 1)
#endif
#define mayAsk(p) (state[p] == waiting && (unanswered(p) || overdue(p)))

inline hold(p, ticks, f) {
  state[p] = holding;
  validity[p] = ticks;
  assert(validity[1 - (p)] == 0);         /* no two valid holders */
#if FENCES
  assert(f > seen);                     /* fences rise */
  seen = f
#endif
}

inline confirm(p) {
  extension[current[p]] = sent;
  extensionAge[current[p]] = 0;
  extensionLeft[current[p]] = validity[p]
}

inline reply(p, s) {                    /* to its last request: a grant counts from the sending */
  if
  :: slot[s] == granted -> hold(p, LIFETIME - age[s], replyFence[s]); forget(s)
  :: slot[s] == busy -> slot[s] = answered
  fi
}

#ifdef ONE_NONCE
#define names(s, p) (tokenOf(s) == current[p])
#else
#define names(s, p) ((s) == request[p])
#endif
#ifdef NO_CONFIRM
#define BELIEVED LIFETIME
#else
#define BELIEVED PROVISIONAL
#endif

/* The message makes a holder if it names the nonce of the last request, that was answered, and enough of the provisional time since
 * its sending is left. A message for a token that nobody waits for is answered with a release. Else the next request tells. */
inline tell(p, s) {
  me = tokenOf(s);
  message[s] = false;
  if
  :: isWanted(me) && names(s, p) && slot[request[p]] == answered && age[request[p]] < PROVISIONAL ->
     hold(p, BELIEVED - age[request[p]], messageFence[s]);
     forget(request[p]);
#ifndef NO_CONFIRM
     provisional[p] = true;
     confirm(p)
#endif
  :: state[p] != dead && !isWanted(me) && !isHeld(me) && releasing[me] == 0 -> releasing[me] = 1
  :: else
  fi;
  messageFence[s] = 0
}

inline extended(p) {
  if
  :: extension[current[p]] == granted && validity[p] > 0 -> validity[p] = LIFETIME - extensionAge[current[p]]
  :: extension[current[p]] == busy -> validity[p] = 0                     /* lost */
  :: else
  fi;
  provisional[p] = false;
  forgetExtension(current[p])
}

inline finish(p) {                      /* holding or waiting. An unknown outcome is released once more when it is too late */
  releasing[current[p]] = 1;
  state[p] = idle;
  validity[p] = 0;
  provisional[p] = false;
  patient[p] = false;
  if
  :: extension[current[p]] != sent -> forgetExtension(current[p])
  :: else
  fi;
  if
  :: isOpen(request[p]) -> again[current[p]] = (age[request[p]] > NOT_AFTER -> 1 : NOT_AFTER + 1 - age[request[p]])
  :: else -> forget(request[p])
  fi
}

inline crash(p) {
  finish(p);
  releasing[current[p]] = 0;
  again[current[p]] = 0;
  state[p] = dead
}

/* A message that can no longer change anything counts as arrived: fewer states, the same behaviour. (Without the comparison, every release
 * changes something.) */
#define isSpent(t) (key != t && nonce[t] == NOBODY && !isOpen(2 * t) && !isOpen(2 * t + 1) && !(key == FREE && queue[0] != FREE) && !isWanted(t) && !isHeld(t))

inline settle() {
#ifndef NO_COMPARE
  for (token : 0 .. 3) {
    if
    :: isSpent(token) ->
       gone[token] = gone[token] || releasing[token] == 2;
       releasing[token] = 0;
       forgetExtension(token);
       message[2 * token] = false;
       message[2 * token + 1] = false;
       messageFence[2 * token] = 0;
       messageFence[2 * token + 1] = 0
    :: else
    fi
  }
#endif
  i = 0; token = 0; first = 0; me = 0
}

proctype Process(byte p) {
end:
  do
  :: d_step { state[p] == idle && rounds[p] < roundsOf(p) -> start(p, false) }
#ifdef LIVENESS
  :: d_step { state[p] == idle && rounds[p] < roundsOf(p) -> start(p, true) }
#endif
  :: d_step { mayAsk(p) && unused(p, 0) -> ask(p, 0) }
  :: d_step { mayAsk(p) && !unused(p, 0) && unused(p, 1) -> ask(p, 1) }
  :: d_step { state[p] == waiting && !patient[p] -> finish(p); settle() }
  :: d_step { state[p] == holding -> finish(p); settle() }
  :: d_step { state[p] == holding && provisional[p] && validity[p] > 0 && extension[current[p]] == none -> confirm(p) }
  :: d_step { crashes > 0 && !patient[p] && (state[p] == waiting || state[p] == holding) -> crashes--; crash(p); settle() }
  od
}

/* ---- The network. */

#define slots(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define tokens(X) X(0) X(1) X(2) X(3)
#define toServer(s)   :: d_step { isOpen(s) && mayMint -> acquire(s); settle() }
#define toProcess(s)  :: d_step { slot[s] == busy || slot[s] == granted -> reply(s >> 2, s); settle() }
#define toEntry(s)    :: d_step { message[s] -> tell(s >> 2, s); settle() }
#define lost(s)       :: d_step { faults > 0 && onItsWay(s) -> faults--; forget(s); settle() } \
                      :: d_step { faults > 0 && message[s] -> faults--; message[s] = false; messageFence[s] = 0; settle() }
#define delayed(s)    :: d_step { faults > 0 && slot[s] == sent -> faults--; slot[s] = late }
#define toRelease(t)  :: d_step { releasing[t] > 0 && mayMint -> release(t); settle() }
#define toExtend(t)   :: d_step { extension[t] == sent -> extend(t); settle() }
#define toHolder(t)   :: d_step { extension[t] == granted || extension[t] == busy -> extended(t >> 1); settle() }

proctype Network() {
end:
  do
  slots(toServer) slots(toProcess) slots(toEntry) slots(lost)
#ifdef LATE
  slots(delayed)
#endif
  tokens(toRelease) tokens(toExtend) tokens(toHolder)
  od
}

/* ---- The clock. It goes on when what must happen by now has happened. */

#define isPunctual(p) (state[p] != waiting || (slot[request[p]] != none && !(onItsWay(request[p]) && age[request[p]] >= NOT_AFTER) && !overdue(p)))

inline tick() {
  if
  :: ttl == 1 -> ttl = 0; key = FREE
  :: ttl > 1 -> ttl--
  :: else
  fi;
  for (i : 0 .. 1) {
    validity[i] = (validity[i] > 0 -> validity[i] - 1 : 0)
  }
  for (i : 0 .. 7) {
    age[i] = (slot[i] != none && age[i] < LIFETIME -> age[i] + 1 : age[i]);
#ifndef NO_NOT_AFTER
    if
    :: isOpen(i) && age[i] > NOT_AFTER -> forget(i)     /* it would be refused */
    :: else
    fi
#endif
  }
  for (token : 0 .. 3) {
    extensionAge[token] = (extension[token] != none && extensionAge[token] < LIFETIME -> extensionAge[token] + 1 : extensionAge[token]);
    extensionLeft[token] = (extensionLeft[token] > 0 -> extensionLeft[token] - 1 : 0);
    if
    :: again[token] == 1 -> again[token] = 0; releasing[token] = 2
    :: again[token] > 1 -> again[token]--
    :: else
    fi;
    if
    :: silence[token] == 1 -> leave(token)
    :: silence[token] > 1 -> silence[token]--
    :: else
    fi
  }
}

proctype Clock() {
end:
  do
  :: d_step { isPunctual(0) && isPunctual(1) -> tick(); settle() }
  od
}

init {
  atomic {
    current[1] = 2;
    request[1] = 4;
    run Process(0);
    run Process(1);
    run Network();
    run Clock()
  }
}

#ifdef LIVENESS
ltl first_is_served { [] (state[0] == waiting && patient[0] -> <> (state[0] != waiting)) }
ltl second_is_served { [] (state[1] == waiting && patient[1] -> <> (state[1] != waiting)) }
#endif
