namespace Whimbrel.Compat.Links;

/// <summary>Native session of a link, for one connection.</summary>
internal interface IBridge
{
    /// <summary>Receiver of the callbacks.</summary>
    BridgeEnd End { get; }

    /// <summary>Sets the buffer for bulk data, if the engine supports it. Call it on the session's thread.</summary>
    void SetReceiveBuffer(byte[] buffer);

    /// <summary>Holds broadcasts, or sends held ones after data queued since.</summary>
    /// <param name="holds">True to hold.</param>
    /// <returns>False, with no effect, if the caller is not on the session's thread.</returns>
    bool TryHoldBroadcasts(bool holds);
}
