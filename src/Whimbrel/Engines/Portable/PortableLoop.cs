using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel.Engines.Portable;

/// <summary>placeholder replaced below</summary>
internal sealed class PortableLoop : Loop
{
    internal PortableLoop(Engine engine, int index) : base(engine, index) { }
    private protected override void StartAttach(Resident resident) => throw new NotImplementedException();
    internal override void StartReceive(Resident resident) => throw new NotImplementedException();
    internal override void StopReceive(Resident resident) => throw new NotImplementedException();
    internal override void StartSend(Connection connection) => throw new NotImplementedException();
    internal override void FinishSend(Connection connection) => throw new NotImplementedException();
    private protected override void StartDetach(Resident resident) => throw new NotImplementedException();
    internal override RawSocket Release(Resident resident) => throw new NotImplementedException();
    internal override void Discard(RawSocket socket) => throw new NotImplementedException();
    private protected override void Wait(long timeoutMs) => throw new NotImplementedException();
    private protected override void Wake() => throw new NotImplementedException();
    private protected override void GrowSlots(int capacity) => throw new NotImplementedException();
    private protected override void CloseQueue() => throw new NotImplementedException();
}
