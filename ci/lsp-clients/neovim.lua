-- The language server as Neovim sees it: a mistake, its place, a hover, and a rename over two files. Ends with 1 where one is not right.
local project = vim.env.PROJECT

local function check()
  local buffer = vim.api.nvim_get_current_buf()
  local client = vim.lsp.start_client({ name = 'gdn', cmd = { vim.env.GDN, 'lsp' }, root_dir = project })
  assert(client, 'the server does not start')
  vim.lsp.buf_attach_client(buffer, client)

  local function wait(what, condition)
    assert(vim.wait(30000, condition, 20), 'in vain: ' .. what)
  end
  local function find(word)
    for number, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
      local column = line:find(word, 1, true)
      if column then
        vim.api.nvim_win_set_cursor(0, { number, column - 1 })
        return { line = number - 1, character = column - 1 }
      end
    end
    error('no ' .. word)
  end
  local function ask(method, params)
    params.textDocument = { uri = vim.uri_from_bufnr(buffer) }
    local answers = assert(vim.lsp.buf_request_sync(buffer, method, params, 30000))
    return assert(answers[client], method).result
  end

  wait('diagnostics', function() return #vim.diagnostic.get(buffer) > 0 end)
  local mistake = vim.diagnostic.get(buffer)[1]
  local place = find('Tool/file-systm')
  assert(mistake.lnum == place.line and mistake.col == place.character, vim.inspect(mistake))

  vim.api.nvim_buf_set_text(buffer, place.line, place.character, place.line, place.character + 15, { 'Tool/file-system' })
  wait('no error', function() return #vim.diagnostic.get(buffer, { severity = vim.diagnostic.severity.ERROR }) == 0 end)

  local hover = ask('textDocument/hover', { position = find('modelRef') })
  assert(hover.contents.value:find('The Model to use', 1, true), vim.inspect(hover))

  find('writer')
  local edit = ask('textDocument/rename', { position = find('writer'), newName = 'author' })
  vim.lsp.util.apply_workspace_edit(edit, vim.lsp.get_client_by_id(client).offset_encoding)
  vim.cmd('wall')
  local swarm = table.concat(vim.fn.readfile(project .. '/resources/swarm.yaml'), '\n')
  assert(swarm:find('entryAgent: Agent/author, agents: [{ref: Agent/author}]', 1, true), swarm)
  print('neovim: all right')
end

local ok, problem = pcall(check)
if not ok then print(problem) end
vim.cmd(ok and 'qall!' or 'cquit!')
