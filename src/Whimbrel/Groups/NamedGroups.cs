using System.Collections;
using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;

namespace Whimbrel;

/// <summary>
/// Groups found by name. A group is listed from its first join until its last member has left, and then forgotten, so that
/// any number of names may come and go. All members from any thread.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Asking for a name costs nothing that lasts: <see cref="this[string]"/> gives an object that acts for the name, and
/// only a join lists it.</item>
/// <item>One name is one group. Of the first joins that meet, one lists its object and the others join that one; a join that
/// meets the last leave finds the group still there, or makes it anew, and is never lost.</item>
/// <item>For one caller its joins, leaves and broadcasts by name take effect in call order (contracts 7 and 17).</item>
/// <item>A group with state of its own is made by the user and kept: <see cref="TryAdd"/>. It stays until
/// <see cref="Remove"/>, with members or without.</item>
/// </list>
/// </remarks>
public sealed class NamedGroups : IEnumerable<SessionGroup>
{
    private readonly ConcurrentDictionary<string, SessionGroup> _listed = new(StringComparer.Ordinal);

    /// <summary>Groups that are listed now. A moment old.</summary>
    public int Count => _listed.Count;

    /// <summary>The group of that name: the listed one, or an object that is listed by the first join. Never null.</summary>
    /// <param name="name">Compared exactly.</param>
    public SessionGroup this[string name]
    {
        get
        {
            ArgumentNullException.ThrowIfNull(name);
            if (Find(name) is { } listed) return listed;
            SessionGroup group = new(name);
            group.ActFor(this);
            return group;
        }
    }

    /// <summary>The listed group of that name: one with members, with a join under way, or that was added.</summary>
    /// <param name="name">Compared exactly.</param>
    /// <param name="group">The group, or null.</param>
    public bool TryGet(string name, [NotNullWhen(true)] out SessionGroup? group)
    {
        ArgumentNullException.ThrowIfNull(name);
        return _listed.TryGetValue(name, out group);
    }

    /// <summary>Lists a group of the user's own under its name until <see cref="Remove"/>. False when the name is taken.</summary>
    /// <param name="group">Of a class derived from <see cref="SessionGroup"/>, for instance. One that is or was in a directory throws <see cref="InvalidOperationException"/>.</param>
    public bool TryAdd(SessionGroup group)
    {
        ArgumentNullException.ThrowIfNull(group);
        return group.TryKeep(this);
    }

    /// <summary>
    /// All members of the group leave, and it is kept no more. The name is free when the last has left, on its loop; a
    /// session that joins meanwhile stays, and the group with it.
    /// </summary>
    /// <param name="name">Compared exactly.</param>
    /// <returns>False when no group of that name is listed.</returns>
    public bool Remove(string name)
    {
        if (!TryGet(name, out SessionGroup? group)) return false;
        group.Clear();
        group.Unkeep();
        return true;
    }

    /// <summary>The listed groups, in no order. What is listed or forgotten meanwhile may be seen or not.</summary>
    public IEnumerator<SessionGroup> GetEnumerator()
    {
        foreach (KeyValuePair<string, SessionGroup> entry in _listed) yield return entry.Value;
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    /// <summary>How many groups there are.</summary>
    public override string ToString() => $"{Count} {(Count == 1 ? "group" : "groups")}";

    internal SessionGroup? Find(string name) => _listed.GetValueOrDefault(name);

    /// <summary>Under the group's gate.</summary>
    internal bool TryList(SessionGroup group) => _listed.TryAdd(group.Name, group);

    /// <summary>Under the group's gate.</summary>
    internal void Unlist(SessionGroup group) => _listed.TryRemove(new KeyValuePair<string, SessionGroup>(group.Name, group));
}
