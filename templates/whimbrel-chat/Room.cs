using Microsoft.Extensions.Options;
using Whimbrel;

namespace Chat_Server;

/// <summary>Everybody who has said a name. One for all sessions, and used by all threads.</summary>
public sealed class Room(IOptions<RoomOptions> options)
{
    public RoomOptions Options { get; } = options.Value;

    /// <summary>Members leave by themselves when they disconnect.</summary>
    public SessionGroup Guests { get; } = new("guests");
}
