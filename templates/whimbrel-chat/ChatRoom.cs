using Microsoft.Extensions.Options;
using Whimbrel;

namespace Chat_Server;

/// <summary>All guests with a name. One instance for all sessions, used by all threads.</summary>
public sealed class ChatRoom(IOptions<ChatRoomOptions> options)
{
    public ChatRoomOptions Options { get; } = options.Value;

    /// <summary>Members leave automatically when they disconnect.</summary>
    public SessionGroup Guests { get; } = new("guests");
}
