"""Oxia's methods that are called: their names, what they take and what they answer."""

from headwater.meta.channels import Method
from headwater.meta.oxia.rpc import oxia_pb2 as pb

SERVICE = "/io.streamnative.oxia.proto.OxiaClient"

ASSIGNMENTS = Method(
    f"{SERVICE}/GetShardAssignments", pb.ShardAssignmentsRequest, pb.ShardAssignments
)
WRITE = Method(f"{SERVICE}/Write", pb.WriteRequest, pb.WriteResponse)
READ = Method(f"{SERVICE}/Read", pb.ReadRequest, pb.ReadResponse)
RANGE_SCAN = Method(f"{SERVICE}/RangeScan", pb.RangeScanRequest, pb.RangeScanResponse)
NOTIFICATIONS = Method(f"{SERVICE}/GetNotifications", pb.NotificationsRequest, pb.NotificationBatch)
CREATE = Method(f"{SERVICE}/CreateSession", pb.CreateSessionRequest, pb.CreateSessionResponse)
KEEP_ALIVE = Method(f"{SERVICE}/KeepAlive", pb.SessionHeartbeat, pb.KeepAliveResponse)
CLOSE = Method(f"{SERVICE}/CloseSession", pb.CloseSessionRequest, pb.CloseSessionResponse)
