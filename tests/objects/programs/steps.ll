; SPDX-License-Identifier: Apache-2.0
; Calls that free nothing and return, but that another thread may wait for: what was accessed before
; them must have been counted. As IR, since clang finds out by itself what functions do.

declare void @step(ptr) nofree nounwind willreturn

; Writes to one object in each round.
define void @publish(ptr %at, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i32 1, ptr %at
  call void @step(ptr %at)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Reads each node's link, and the key of the next one, which ends it.
define void @walk(ptr %first) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %first, %entry ], [ %to, %loop ]
  %to = load volatile ptr, ptr %at
  %key_of = getelementptr i8, ptr %to, i64 8
  %key = load volatile i64, ptr %key_of
  call void @step(ptr %to)
  %more = icmp ne i64 %key, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}

; The call is where the next round begins.
define void @walk_late(ptr %first) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %first, %entry ], [ %to, %loop ]
  call void @step(ptr %at)
  %to = load volatile ptr, ptr %at
  %key_of = getelementptr i8, ptr %to, i64 8
  %key = load volatile i64, ptr %key_of
  %more = icmp ne i64 %key, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
