using System.Buffers;

namespace Whimbrel;

/// <summary>
/// Writes a broadcast in the encoding of one class of members. See
/// <see cref="SessionGroup.Broadcast{TState}(TState, BroadcastEncoder{TState}, Session)"/>.
/// </summary>
/// <typeparam name="TState">Type of the message; may be a span.</typeparam>
/// <param name="state">Message passed by the caller of the broadcast.</param>
/// <param name="memberClass">Class of the receiving members, as given to
/// <see cref="SessionGroup.Join(Session, int)"/>.</param>
/// <param name="output">Writer for the bytes. If nothing is written, members of the class receive nothing. Valid during
/// the call only.</param>
public delegate void BroadcastEncoder<in TState>(TState state, int memberClass, IBufferWriter<byte> output)
    where TState : allows ref struct;
