using System.Buffers;

namespace Whimbrel;

/// <summary>
/// Writes a broadcast in the form that one class of members gets. See
/// <see cref="SessionGroup.Broadcast{TState}(TState, BroadcastEncoder{TState}, Session)"/>.
/// </summary>
/// <typeparam name="TState">What is broadcast; may be a span.</typeparam>
/// <param name="state">What the caller of the broadcast gave.</param>
/// <param name="memberClass">For whom: what its members gave to <see cref="SessionGroup.Join(Session, int)"/>.</param>
/// <param name="output">Takes the bytes. With none written that class gets nothing. Valid during the call only.</param>
public delegate void BroadcastEncoder<in TState>(TState state, int memberClass, IBufferWriter<byte> output)
    where TState : allows ref struct;
